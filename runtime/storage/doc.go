// Package storage is the port to where objects are kept: an S3 bucket, a
// directory, memory. Its implementations are the packages below it; router
// puts several of them behind one name, and resolves logical keys.
//
// The storage hop of a run (package bundle) uses one leaf backend directly and
// asks the router for one thing only: a presigned URL of an artifact that is
// cached already (RFC 0022 §5.2).
package storage
