// Package rowmill is the root of the module. It holds no code, only the test
// of the tree's own rules: who may import whom, names, sizes of files.
//
// The command is cmd/rowmill; docs/architecture.md says what each folder is for.
package rowmill
