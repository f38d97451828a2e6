package seccomp

import _ "embed" // the compiled filter

//go:embed filter_arm64.bpf
var program string
