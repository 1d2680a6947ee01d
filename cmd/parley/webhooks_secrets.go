package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// stdinName stands for standard input where a flag takes a file.
const stdinName = "-"

// secretFlags are the flags --secret and --secret-file.
type secretFlags struct {
	given []string
	file  string
	// flag is the name of the flag of the file; empty means --secret-file.
	flag string
}

func (f *secretFlags) add(command *cobra.Command, what string) {
	flags := command.Flags()
	flags.StringVar(&f.file, "secret-file", "", "a file with signing secrets "+what+", one a line; - reads standard input")
	flags.StringArrayVar(&f.given, "secret", nil, "a signing secret "+what+"; other users of this machine can see it: prefer --secret-file")
}

const maxSecretsBytes = 64 << 10

// read returns the secrets of both flags.
func (f *secretFlags) read(stdin io.Reader) ([]string, error) {
	if f.file == "" {
		return f.given, nil
	}
	name := cmp.Or(f.flag, "--secret-file")
	source := stdin
	if f.file != stdinName {
		opened, err := os.Open(f.file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		defer func() { _ = opened.Close() }()
		source = opened
	}
	text, err := io.ReadAll(io.LimitReader(source, maxSecretsBytes))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	secrets := strings.Fields(string(text))
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%s: %s is empty", name, f.file)
	}
	return append(f.given, secrets...), nil
}
