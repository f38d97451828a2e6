package main

// archCalls are those that only this architecture has.
var archCalls []kernelCall
