package jsonin

import (
	"strings"
	"unicode"
)

// pairwise is the number of names up to which comparing each with each is faster than hashing.
const pairwise = 16

// nameSet finds names of one object that are equal when case is ignored, the way
// encoding/json matches names to struct fields. Its names are the tail of reader.names.
type nameSet struct {
	start  int
	folded map[string]string
}

// add adds a name, and returns the name that is equal to it when case is ignored, if there is one.
func (s *nameSet) add(r *reader, name string) (string, bool) {
	seen := r.names[s.start:]
	if s.folded == nil && len(seen) < pairwise {
		for _, other := range seen {
			if strings.EqualFold(other, name) {
				return other, true
			}
		}
		r.names = append(r.names, name)
		return "", false
	}
	if s.folded == nil {
		s.folded = make(map[string]string, 4*pairwise)
		for _, other := range seen {
			s.folded[fold(other)] = other
		}
	}
	key := fold(name)
	if twin, ok := s.folded[key]; ok {
		return twin, true
	}
	s.folded[key] = name
	return "", false
}

// fold maps every rune to the smallest rune that strings.EqualFold treats as equal.
func fold(name string) string {
	return strings.Map(func(char rune) rune {
		for {
			next := unicode.SimpleFold(char)
			if next <= char {
				return next
			}
			char = next
		}
	}, name)
}
