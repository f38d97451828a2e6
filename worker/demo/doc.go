// Command demo scans real packages, and three of its own making, inside proven
// bwrap sandboxes: it builds a room for gitleaks, fetches packages through the
// Go module proxy and npm as they are configured, and shows what sandboxctl
// says about each. A package with a planted secret has to be found out, and
// one that tries to leave its directory has to be refused.
package main
