// Package findings reads what a scanner printed into one model.
//
// All of it is hostile: a scanner that was taken over by what it scanned can
// print anything. So the bytes are bounded before they get here (the agent caps
// them), the number of findings and the length of every string are bounded
// here, and nothing in a finding is fit for a terminal until it was escaped.
package findings
