module github.com/batleforc/batlehub-sandbox/fuzz

go 1.26.5

require github.com/batleforc/batlehub-sandbox/wire v0.0.0

replace github.com/batleforc/batlehub-sandbox/wire => ../wire

require github.com/batleforc/batlehub-sandbox/agent v0.0.0

replace github.com/batleforc/batlehub-sandbox/agent => ../agent
