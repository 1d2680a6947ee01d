// Package library owns the files that a team uploads in order to send them. Package media uploads them to the
// provider when a number first sends them.
package library

import (
	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/provider"
)

// ID identifies a library file.
type ID = ids.Public[kind]

type kind struct{}

func (kind) Prefix() string { return "med_" }

// File is a file of a team.
type File struct {
	ID     ID
	TeamID orgs.TeamID
	// Type is the type of message that can carry the file: image, document, video or audio.
	Type     string
	MIMEType string
	Size     int64
	// Filename is nil if the upload had none.
	Filename *string
	Key      string
}

// Draft creates a file. TeamID may be nil when the organization has one team.
type Draft struct {
	TeamID *orgs.TeamID
	Upload Upload
}

// Upload is the content of a file that is stored, and not yet part of the library.
type Upload struct {
	Type     string
	MIMEType string
	Size     int64
	Filename *string
	// Key is where the content is stored; empty if it was not stored.
	Key string
	// SHA256 is the checksum of the content.
	SHA256 []byte
}

// Name is the name of the file; empty if it has none.
func (u Upload) Name() string {
	if u.Filename == nil {
		return ""
	}
	return *u.Filename
}

// Sendable is the file as its upload to the provider needs it.
func (f File) Sendable() media.LibraryFile {
	name := Upload{Filename: f.Filename}.Name()
	return media.LibraryFile{ID: f.ID.Any(), Key: f.Key, MIMEType: f.MIMEType, Filename: name, Size: f.Size}
}

// CarriedBy refuses a file that a message of the type cannot carry. Every file can be sent as a document.
func (f File) CarriedBy(messageType, param string) error {
	if f.Type == messageType || messageType == provider.TypeDocument {
		return nil
	}
	instead := provider.TypeDocument
	if f.Type != instead {
		instead = f.Type + " or " + instead
	}
	return fault.Invalid(param, "names a file of the type "+f.Type+", which cannot be sent as "+messageType+": send it as "+instead)
}
