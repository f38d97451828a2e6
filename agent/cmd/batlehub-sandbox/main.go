// Command batlehub-sandbox is the one program that is put inside every
// sandbox. Its argv is exactly --in <url> --out <url>.
package main

import "os"

func main() { os.Exit(1) }
