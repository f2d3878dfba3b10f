package textfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Replace writes a file completely or not at all: it writes a temporary file in the same
// directory and renames it when it is complete. A device or a pipe is written directly.
func Replace(path string, write func(io.Writer) error) error {
	switch info, err := os.Stat(path); {
	case err != nil:
		// The file is created below, or creating it fails with the cause.
	case info.IsDir():
		return fmt.Errorf("write %s: is a directory", path)
	case !info.Mode().IsRegular():
		// A device or a pipe is written directly; renaming would replace it.
		return writeDevice(path, write)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = write(f)
	if err == nil {
		// Temporary files are private, but a report needs the usual permissions.
		err = f.Chmod(0o644)
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}

func writeDevice(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
