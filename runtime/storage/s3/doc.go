// Package s3 keeps objects in a bucket of an S3-compatible server.
//
// Every call ends inside a deadline. What may be repeated is, a bounded number
// of times and with growing pauses; an upload only when its reader can be
// wound back. Presigning is local: the region is configured, so nothing asks
// the server where the bucket is.
package s3
