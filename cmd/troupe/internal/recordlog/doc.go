// Package recordlog appends lines to a file without ever holding up who has them.
package recordlog
