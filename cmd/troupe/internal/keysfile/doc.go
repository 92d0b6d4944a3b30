// Package keysfile reads the file of API keys: who may use the server, how fast,
// and with which share of it.
package keysfile
