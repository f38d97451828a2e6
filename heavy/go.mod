module github.com/batleforc/batlehub-sandbox/heavy

go 1.26.5

require github.com/batleforc/batlehub-sandbox/wire v0.0.0

replace github.com/batleforc/batlehub-sandbox/wire => ../wire

require github.com/batleforc/batlehub-sandbox/agent v0.0.0

replace github.com/batleforc/batlehub-sandbox/agent => ../agent

require github.com/batleforc/batlehub-sandbox/runtime v0.0.0

replace github.com/batleforc/batlehub-sandbox/runtime => ../runtime

replace github.com/batleforc/batlehub-sandbox/worker => ../worker

require (
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/ulikunitz/xz v0.5.17 // indirect
	golang.org/x/crypto/x509roots/fallback v0.0.0-20261030153154-30a33513ff6d // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/batleforc/batlehub-sandbox/conformance => ../conformance
