module github.com/batleforc/batlehub-sandbox/wire

go 1.26.5
