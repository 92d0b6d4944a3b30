// Package tlsfiles makes the server's TLS configuration from files, and takes
// changed files into use while the server runs.
package tlsfiles
