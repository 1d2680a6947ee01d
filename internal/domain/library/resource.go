package library

import (
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
)

// Resource is the JSON of a file.
type Resource struct {
	ID        ID          `json:"id"`
	Object    string      `json:"object"`
	TeamID    orgs.TeamID `json:"team_id"`
	Type      string      `json:"type"`
	MIMEType  string      `json:"mime_type"`
	Size      int64       `json:"size"`
	Filename  *string     `json:"filename"`
	URL       string      `json:"url"`
	CreatedAt clock.Stamp `json:"created_at"`
}

// Resource is the file as JSON.
func (s *Service) Resource(f File) Resource {
	return Resource{
		ID: f.ID, Object: "media", TeamID: f.TeamID, Type: f.Type, MIMEType: f.MIMEType, Size: f.Size, Filename: f.Filename,
		URL: s.media.URL(f.Key), CreatedAt: clock.Stamp(f.ID.CreatedAt()),
	}
}
