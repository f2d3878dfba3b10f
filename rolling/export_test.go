package rolling

// ReadDefinitionModes read a definition as one kind of server does.
var ReadDefinitionModes = func() (out []func(string) (*Definition, error)) {
	for _, mode := range dialects {
		out = append(out, func(text string) (*Definition, error) {
			d, err := readDefinition(text, mode)
			if err != nil {
				return nil, definitionError(text, err)
			}
			return d, nil
		})
	}
	return out
}()

// DeclarationKeys are the keys of each table of a declaration.
var DeclarationKeys = declarationKeys
