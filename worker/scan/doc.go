// Package scan probes the rooms that a scan needs and then runs every scanner
// over one artifact. A room whose probe failed is not scanned in, and there is
// no way to leave the probe out.
package scan
