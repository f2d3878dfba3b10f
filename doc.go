// Package rowmill is the root of the module. It holds no code, only a test of the tree's own rules:
// which package may import which, names, and sizes of files.
//
// The command is cmd/rowmill; docs/architecture.md says what each folder is for.
package rowmill
