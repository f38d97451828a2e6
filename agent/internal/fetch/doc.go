// Package fetch gets the manifest and the inputs and puts the result: three
// schemes, and nothing else of HTTP than two requests need.
//
// The client is our own over crypto/tls, because net/http alone is larger
// than the whole agent may be, follows redirects, keeps connections and reads
// the environment. This one sends one request per connection, takes a body of
// a known bound, and never repeats a URL's query, which may be a signature,
// in an error.
package fetch
