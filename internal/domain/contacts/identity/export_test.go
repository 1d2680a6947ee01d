package identity

import "errors"

// Check says which rule the resolver broke, if any.
func (r *Resolver) Check() error {
	for _, e := range r.entries {
		if e.owner.Into != nil {
			return errors.New("a key belongs to a contact that was merged into another")
		}
	}
	for _, p := range r.People {
		numbers := 0
		for _, e := range p.keys {
			if e.owner != p {
				return errors.New("a contact has a key that belongs to another")
			}
			if isNumber(e.key) && e.retired == nil {
				numbers++
			}
		}
		if numbers > 1 {
			return errors.New("a contact has two numbers at once")
		}
	}
	return nil
}
