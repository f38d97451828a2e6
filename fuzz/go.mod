module github.com/batleforc/batlehub-sandbox/fuzz

go 1.26.5

require github.com/batleforc/batlehub-sandbox/wire v0.0.0

replace github.com/batleforc/batlehub-sandbox/wire => ../wire

require github.com/batleforc/batlehub-sandbox/agent v0.0.0

require (
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/ulikunitz/xz v0.5.17 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/batleforc/batlehub-sandbox/agent => ../agent
