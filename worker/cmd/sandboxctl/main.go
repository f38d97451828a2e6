// Command sandboxctl scans packages inside proven sandboxes, and says what this
// host can prove.
package main

func main() {}
