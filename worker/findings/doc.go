// Package findings reads what a scanner printed into one model of findings. All of it is
// hostile input.
package findings
