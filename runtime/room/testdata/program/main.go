// Command program stands for the agent: static, and nothing else.
package main

func main() {}
