package api

import (
	"context"
	"net/http"

	"github.com/parley-chat/parley/internal/domain/library"
)

func listMedia(c *call) (reply, error) {
	return list(c, c.cell.Library.Resource, c.cell.Library.List)
}

// createMedia makes the file that was received part of the library.
func createMedia(c *call) (reply, error) {
	at := func(made library.File) string { return "/media/" + made.ID.String() }
	return writeNew(c, at, c.cell.Library.Resource, func(ctx context.Context) (library.File, error) {
		made, err := c.cell.Library.Create(ctx, c.org(), c.upload.draft)
		c.upload.kept = err == nil
		return made, err
	})
}

func getMedia(c *call) (reply, error) {
	id, err := pathID[library.ID](c, "id", "library file")
	if err != nil {
		return reply{}, err
	}
	file, err := c.cell.Library.Get(c.ctx(), c.org(), id)
	return read(c, c.cell.Library.Resource, file, err)
}

func deleteMedia(c *call) (reply, error) {
	id, err := pathID[library.ID](c, "id", "library file")
	if err != nil {
		return reply{}, err
	}
	gone := func(file library.File) deleted { return deletedOf("media", file.ID) }
	return write(c, http.StatusOK, gone, func(ctx context.Context) (library.File, error) {
		return c.cell.Library.Delete(ctx, c.org(), id)
	})
}
