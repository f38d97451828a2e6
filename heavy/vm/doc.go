// Package vm has the tests that run in a virtual machine: on real cgroup v2, on a
// root that is the kernel's first file system, and on hosts whose AppArmor or
// sysctls restrict user namespaces. scripts/vm.sh builds and starts the machine.
package vm
