// Command empty does nothing. It is what the start of a Go program costs.
package main

func main() {}
