module github.com/batleforc/batlehub-sandbox/tools/seccompgen

go 1.26.5

require (
	github.com/batleforc/batlehub-sandbox/agent v0.0.0
	github.com/seccomp/libseccomp-golang v0.11.1
)

require golang.org/x/sys v0.50.0 // indirect

replace (
	github.com/batleforc/batlehub-sandbox/agent => ../../agent
	github.com/batleforc/batlehub-sandbox/wire => ../../wire
)
