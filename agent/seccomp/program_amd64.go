package seccomp

import _ "embed" // the compiled filter

//go:embed filter_amd64.bpf
var program string
