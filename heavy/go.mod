module github.com/batleforc/batlehub-sandbox/heavy

go 1.26.5

require github.com/batleforc/batlehub-sandbox/wire v0.0.0

replace github.com/batleforc/batlehub-sandbox/wire => ../wire

require github.com/batleforc/batlehub-sandbox/agent v0.0.0

replace github.com/batleforc/batlehub-sandbox/agent => ../agent

require github.com/batleforc/batlehub-sandbox/runtime v0.0.0

replace github.com/batleforc/batlehub-sandbox/runtime => ../runtime

require github.com/batleforc/batlehub-sandbox/worker v0.0.0

replace github.com/batleforc/batlehub-sandbox/worker => ../worker

require github.com/batleforc/batlehub-sandbox/conformance v0.0.0

replace github.com/batleforc/batlehub-sandbox/conformance => ../conformance
