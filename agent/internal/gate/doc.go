// Package gate finds out whether a sandbox's network wall stands, by
// connecting to canaries: addresses that would answer if it did not.
//
// A connect that fails is not yet a wall. An RST came from the canary, so a
// packet reached it; an ICMP refusal by a firewall on the way means that none did, and
// connect(2) reports both as ECONNREFUSED. What tells them apart is the address
// of the host that sent the ICMP message, which Linux keeps in the socket's
// error queue (IP_RECVERR, IPV6_RECVERR).
//
// Two callers use it: the probe, with the three seconds of RFC 0022 §4.3, and
// every run without network just before its scanner starts, with a shorter
// silence, because some clusters put a pod's policy in place only after the
// pod runs.
package gate
