package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// texts are the files made from the binary's own help.
type texts struct {
	pages       map[string][]byte // man pages by file name
	completions map[string][]byte // by shell: bash, zsh, fish
}

// texts runs rowmill for its help and its completions.
func (r *release) texts(binary string) (*texts, error) {
	t := &texts{map[string][]byte{}, map[string][]byte{}}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		out, err := output(binary, "completion", shell)
		if err != nil {
			return nil, err
		}
		t.completions[shell] = out
	}
	return t, r.addPages(t.pages, binary, []string{"rowmill"}, "measure, and keep, the insert rate of SQL tables that outgrow memory")
}

func output(binary string, args ...string) ([]byte, error) {
	out, err := exec.Command(binary, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("rowmill %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// heading matches the line above a part of a command's help.
var heading = regexp.MustCompile(`^([A-Z][A-Za-z ]*):$`)

// subcommand matches the line of a command in the help of its parent command.
var subcommand = regexp.MustCompile(`^  ([a-z][a-z-]*) +(.*)$`)

// addPages adds the man page of a command, and those of the commands below it.
func (r *release) addPages(pages map[string][]byte, binary string, command []string, short string) error {
	help, err := output(binary, append(command[1:len(command):len(command)], "--help")...)
	if err != nil {
		return err
	}
	parts, part := map[string][]string{}, "Description"
	for line := range strings.Lines(strings.TrimSpace(string(help))) {
		line = strings.TrimRight(line, "\n")
		if m := heading.FindStringSubmatch(line); m != nil && (m[1] == "Usage" || m[1] == "Examples" || strings.HasSuffix(m[1], "Flags") || m[1] == "Available Commands") {
			part = m[1]
			continue
		}
		if !strings.HasPrefix(line, `Use "rowmill`) {
			parts[part] = append(parts[part], line)
		}
	}
	var also []string
	var commands bytes.Buffer
	for _, line := range parts["Available Commands"] {
		m := subcommand.FindStringSubmatch(line)
		if m == nil || m[1] == "help" || m[1] == "completion" {
			continue
		}
		below := append(command[:len(command):len(command)], m[1])
		also = append(also, strings.Join(below, "-"))
		fmt.Fprintf(&commands, ".TP\n.B %s\n%s\n", escaped(m[1]), escaped(m[2]))
		if err := r.addPages(pages, binary, below, m[2]); err != nil {
			return err
		}
	}
	if len(command) > 1 {
		also = append(also, strings.Join(command[:len(command)-1], "-"))
	}
	name := strings.Join(command, "-")
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s 1 \"%s\" \"rowmill %s\" \"rowmill\"\n", escaped(strings.ToUpper(name)), r.time.Format("2006-01-02"), escaped(r.version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escaped(name), escaped(short))
	verbatim(&b, "SYNOPSIS", parts["Usage"])
	b.WriteString(".SH DESCRIPTION\n")
	paragraphs(&b, parts["Description"])
	if commands.Len() > 0 {
		fmt.Fprintf(&b, ".SH COMMANDS\n%s", commands.Bytes())
	}
	if flags := append(parts["Flags"], parts["Global Flags"]...); len(flags) > 0 {
		b.WriteString(".SH OPTIONS\n")
		options(&b, flags)
	}
	verbatim(&b, "EXAMPLES", parts["Examples"])
	for i := range also {
		also[i] = ".BR " + escaped(also[i]) + " (1)"
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n.br\nhttps://github.com/rowmill/rowmill\n", strings.Join(also, ",\n"))
	pages[name+".1"] = b.Bytes()
	return nil
}

// escaped returns text as roff shows it unchanged.
func escaped(s string) string {
	s = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// verbatim writes a section whose lines stay as they are.
func verbatim(b *bytes.Buffer, section string, lines []string) {
	if text := strings.TrimSpace(strings.Join(lines, "\n")); text != "" {
		fmt.Fprintf(b, ".SH %s\n.nf\n", section)
		for line := range strings.Lines(text) {
			fmt.Fprintln(b, escaped(strings.TrimSpace(line)))
		}
		b.WriteString(".fi\n")
	}
}

// paragraphs writes lines of text. Lines that are indented stay as they are.
func paragraphs(b *bytes.Buffer, lines []string) {
	for _, paragraph := range strings.Split(strings.TrimSpace(strings.Join(lines, "\n")), "\n\n") {
		as := strings.Contains("\n"+paragraph, "\n ")
		b.WriteString(".PP\n")
		if as {
			b.WriteString(".nf\n")
		}
		for line := range strings.Lines(paragraph) {
			fmt.Fprintln(b, escaped(strings.TrimRight(line, "\n")))
		}
		if as {
			b.WriteString(".fi\n")
		}
	}
}

// flagLine matches the line of a flag in a help text: the flag, and what it does.
var flagLine = regexp.MustCompile(`^ {2,6}(-.*?)(?: {2,}(\S.*))?$`)

// options writes the flags.
func options(b *bytes.Buffer, lines []string) {
	for _, line := range lines {
		if m := flagLine.FindStringSubmatch(line); m != nil {
			fmt.Fprintf(b, ".TP\n.B %s\n%s\n", escaped(m[1]), escaped(m[2]))
		} else if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintln(b, escaped(line))
		}
	}
}

// compressed returns text as gzip -9n writes it.
func compressed(text []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	_, _ = w.Write(text)                                  // to memory
	_ = w.Close()
	return b.Bytes()
}

// source returns a file of rowmill's source.
func (r *release) source(path string) ([]byte, error) {
	return os.ReadFile(filepath.Join(r.root, path))
}
