package content

import "encoding/json"

// ShapeFault returns the fault by the rules that the contract's schema has, too.
func ShapeFault(kind string, object json.RawMessage) error {
	root, err := parse(kind, object)
	if err != nil {
		return err
	}
	var c checker
	shapes[kind](&c, root)
	return c.err
}
