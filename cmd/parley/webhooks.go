package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/signature"
)

func (p *program) webhooksCommand() *cobra.Command {
	return group("webhooks", "For receivers of webhooks: find out why a signature fails, receive on this machine",
		p.webhooksVerify(), p.webhooksReceive())
}

func (p *program) webhooksVerify() *cobra.Command {
	var from verifyFlags
	command := &cobra.Command{
		Use:   "verify",
		Short: "Verify one delivery, or name the step that fails and what to do about it",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			suspect, err := from.read(command.InOrStdin())
			if err != nil {
				return err
			}
			return p.verdict(diagnose(suspect), suspect)
		},
	}
	flags := command.Flags()
	from.secrets.add(command, "of the subscription; several during rotation")
	flags.StringArrayVar(&from.revoked, "revoked-secret", nil, "a secret that was revoked or has expired, to recognise its signature")
	flags.StringVar(&from.header, "header", "", "the value of "+signature.Header)
	flags.StringVar(&from.body, "body", stdinName, "the file with the raw body, or - for standard input")
	flags.StringVar(&from.original, "original", "", "a file with the body as it was sent, to find where the received one differs")
	flags.StringVar(&from.at, "at", "", "when it arrived, in RFC 3339 or Unix seconds (default: now)")
	flags.DurationVar(&from.tolerance, "tolerance", signature.Tolerance, "how far t may be from that time")
	_ = command.MarkFlagRequired("header") // fails only for an unknown flag
	return command
}

type verifyFlags struct {
	secrets                    secretFlags
	revoked                    []string
	header, body, original, at string
	tolerance                  time.Duration
}

func (f verifyFlags) read(stdin io.Reader) (suspect, error) {
	at, err := arrival(f.at)
	if err != nil {
		return suspect{}, err
	}
	if f.secrets.file == stdinName && f.body == stdinName {
		return suspect{}, errors.New("--secret-file and --body: only one of them can be standard input; give --body a file")
	}
	secrets, err := f.secrets.read(stdin)
	if err != nil {
		return suspect{}, err
	}
	if len(secrets) == 0 {
		return suspect{}, errors.New("give a signing secret: --secret-file PATH, or --secret-file - for standard input")
	}
	s := suspect{header: pasted(f.header), secrets: secrets, revoked: f.revoked, at: at, tolerance: f.tolerance}
	if f.body == stdinName {
		s.body, err = io.ReadAll(stdin)
	} else {
		s.body, err = os.ReadFile(f.body)
	}
	if err != nil {
		return suspect{}, fmt.Errorf("--body: %w", err)
	}
	if f.original != "" {
		s.hasOriginal = true
		if s.original, err = os.ReadFile(f.original); err != nil {
			return suspect{}, fmt.Errorf("--original: %w", err)
		}
	}
	return s, nil
}

func arrival(text string) (time.Time, error) {
	if text == "" {
		return clock.NewSynced().Now(), nil
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Unix(seconds, 0), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("--at: %q is neither a time such as 2026-03-14T09:26:53Z nor Unix seconds", text)
	}
	return at, nil
}

// pasted returns the value of a header that was copied with or without its name.
func pasted(header string) string {
	header = strings.TrimSpace(header)
	name, value, found := strings.Cut(header, ":")
	if found && strings.EqualFold(strings.TrimSpace(name), signature.Header) {
		return strings.TrimSpace(value)
	}
	return header
}

var errUnverified = errors.New("the delivery does not verify")

// verdict prints the findings; any finding makes the command fail.
func (p *program) verdict(findings []finding, s suspect) error {
	if len(findings) == 0 {
		signed, err := signature.Parse(s.header)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.stdout, "OK: signed at %s with secret %d of %d; %d bytes\n",
			signed.At.Format(time.RFC3339), s.matching(signed, s.body, s.secrets), len(s.secrets), len(s.body))
		return nil
	}
	steps := make([]string, len(findings))
	for i, found := range findings {
		steps[i] = found.step
		fmt.Fprintf(p.stdout, "FAIL %s: %s\n", found.step, found.says)
		for _, advice := range found.advice {
			fmt.Fprintf(p.stdout, "  → %s\n", advice)
		}
	}
	return fmt.Errorf("%w: %s", errUnverified, strings.Join(steps, ", "))
}
