// Package fence keeps the agent small. Its tests compare everything that the
// agent's binary is made of with allow.txt, where each package stands with the
// reason why it may be inside the walls, and look for reads of the
// environment in the agent's own source (RFC 0022 §6.2).
package fence
