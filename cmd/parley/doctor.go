package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/app"
)

var errChecksFailed = errors.New("a check failed: see the lines that start with FAIL")

func (p *program) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check settings, databases, workers, Redis, files and the provider; one line each, with the fix",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), 20*time.Second)
			defer cancel()
			well := true
			for _, check := range app.Doctor(ctx, p.environment) {
				mark := "ok  "
				switch {
				case check.Fix != "" && check.Warning:
					mark = "WARN"
				case check.Fix != "":
					mark, well = "FAIL", false
				}
				line := []string{mark, check.Name + ":", check.Found}
				if check.Fix != "" {
					line = append(line, "→", check.Fix)
				}
				fmt.Fprintln(p.stdout, strings.Join(slices.DeleteFunc(line, func(s string) bool { return s == "" }), " "))
			}
			if !well {
				return errChecksFailed
			}
			return nil
		},
	}
}
