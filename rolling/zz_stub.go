package rolling

import "errors"

func ParseDeclaration(source string, text []byte) (*Declaration, error) {
	return nil, errors.New("todo")
}
