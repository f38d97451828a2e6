// Package scan probes the rooms that a scan needs and then runs every scanner over one
// artifact.
package scan
