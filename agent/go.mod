module github.com/batleforc/batlehub-sandbox/agent

go 1.26.5

require (
	github.com/batleforc/batlehub-sandbox/wire v0.0.0
	github.com/klauspost/compress v1.20.4
	github.com/ulikunitz/xz v0.5.17
	golang.org/x/crypto/x509roots/fallback v0.0.0-20261030153154-30a33513ff6d
	golang.org/x/sys v0.50.0
)

replace github.com/batleforc/batlehub-sandbox/wire => ../wire
