// Package agent is the sequence that runs inside every sandbox: fetch the
// bundle, unpack it, run one scanner over it, send the result back.
//
// The same code is the program batlehub-sandbox, alone inside the walls, and a
// library for the runtime without walls. It never prints or logs: what there
// is to say stands in the sealed result.
package agent
