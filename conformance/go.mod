module github.com/batleforc/batlehub-sandbox/conformance

go 1.26.5

require github.com/batleforc/batlehub-sandbox/wire v0.0.0

replace github.com/batleforc/batlehub-sandbox/wire => ../wire

require github.com/batleforc/batlehub-sandbox/agent v0.0.0 // indirect

replace github.com/batleforc/batlehub-sandbox/agent => ../agent

require github.com/batleforc/batlehub-sandbox/runtime v0.0.0

replace github.com/batleforc/batlehub-sandbox/runtime => ../runtime

require (
	github.com/onsi/ginkgo/v2 v2.34.0
	github.com/onsi/gomega v1.44.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	golang.org/x/sys v0.50.0
)

require (
	github.com/Masterminds/semver/v3 v3.4.0 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/go-task/slim-sprig/v3 v3.0.0 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/google/pprof v0.0.0-20260402051712-545e8a4df936 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/ulikunitz/xz v0.5.17 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto/x509roots/fallback v0.0.0-20261030153154-30a33513ff6d // indirect
	golang.org/x/mod v0.36.0 // indirect
	golang.org/x/net v0.56.0 // indirect
	golang.org/x/sync v0.21.0 // indirect
	golang.org/x/text v0.38.0 // indirect
	golang.org/x/tools v0.45.0 // indirect
)

replace github.com/batleforc/batlehub-sandbox/worker => ../worker
