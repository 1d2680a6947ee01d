// Package labels owns the labels of a team. Which contacts and conversations carry a label is
// stored by their packages. This package is the model for resources: copy its shape.
package labels

import (
	"fmt"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jsonin"
	"github.com/parley-chat/parley/internal/platform/patch"
)

// ID identifies a label.
type ID = ids.Public[kind]

type kind struct{}

func (kind) Prefix() string { return "lbl_" }

// Label is a name and a color. The name is unique in its team, in any case.
type Label struct {
	ID        ID
	TeamID    orgs.TeamID
	Name      string
	Color     string
	UpdatedAt time.Time
}

// Draft creates a label. TeamID may be nil when the organization has one team.
type Draft struct {
	Name   string       `json:"name"`
	Color  string       `json:"color"`
	TeamID *orgs.TeamID `json:"team_id"`
}

func (d *Draft) check() error {
	if d.Color == "" {
		d.Color = "gray"
	}
	d.Name = strings.TrimSpace(d.Name)
	return jsonin.Name("name", d.Name)
}

// Patch changes a label.
type Patch struct {
	Name  patch.Field[string] `json:"name"`
	Color patch.Field[string] `json:"color"`
}

func (p *Patch) check() error {
	if !p.Name.Set {
		return nil
	}
	p.Name.Value = strings.TrimSpace(p.Name.Value)
	return jsonin.Name("name", p.Name.Value)
}

func (l *Label) apply(p Patch, now time.Time) (changed bool) {
	renamed, recolored := patch.Apply(p.Name, &l.Name), patch.Apply(p.Color, &l.Color)
	if changed = renamed || recolored; changed {
		l.UpdatedAt = now
	}
	return changed
}

// MaxCarried is how many labels a contact or a conversation carries at most.
const MaxCarried = 100

// TooMany is the refusal of one label more than MaxCarried.
func TooMany(noun string, id fmt.Stringer) error {
	return fault.New(fault.LimitReached, "The %s %s has %d labels, which is the most. Detach one first.", noun, id, MaxCarried)
}
