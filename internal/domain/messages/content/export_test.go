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
	if faults := c.faults(); len(faults) > 0 {
		return faults[0]
	}
	return nil
}
