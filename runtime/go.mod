module github.com/batleforc/batlehub-sandbox/runtime

go 1.26.5

require github.com/batleforc/batlehub-sandbox/wire v0.0.0

replace github.com/batleforc/batlehub-sandbox/wire => ../wire

require (
	github.com/batleforc/batlehub-sandbox/agent v0.0.0
	github.com/klauspost/compress v1.20.4
	github.com/moby/profiles/seccomp v0.3.0
	github.com/opencontainers/runtime-spec v1.3.0
	golang.org/x/sys v0.50.0
)

require (
	github.com/ulikunitz/xz v0.5.17 // indirect
	golang.org/x/crypto/x509roots/fallback v0.0.0-20261030153154-30a33513ff6d // indirect
)

replace github.com/batleforc/batlehub-sandbox/agent => ../agent
