module github.com/batleforc/batlehub-sandbox/agent/extract/internal/foldgen

go 1.26.5

require golang.org/x/text v0.38.0
