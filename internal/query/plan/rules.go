package plan

import "fmt"

// A refusal is why a statement is passed to the server whole.
type refusal string

func (r refusal) Error() string { return string(r) }

// refuse returns a refusal by a rule, for which the statement is passed on whole. args are the
// parts of the statement that the rule's reason names.
func refuse(r rule, args ...any) error { return refusal(fmt.Sprintf(r.reason, args...)) }

// A rule is a condition under which a statement is not split, because pieces might return another
// answer, or be no faster.
type rule struct {
	// trait is the engine.Semantics field that is set for servers with this rule; "" is all servers.
	trait string
	// reason has a verb of fmt for each part of the statement that it names.
	reason string
}

// The rules, in the order of the table in docs/querying.md.
var (
	fromEngine          = rule{reason: "%s"}
	fromServer          = rule{reason: "%s: %s"}
	zeroByte            = rule{reason: "it has a zero byte"}
	parameter           = rule{reason: "it has a parameter"}
	placeUncertain      = rule{reason: "the place of %s in its text is not certain"}
	nameUncertain       = rule{reason: "the name of %s is not written in a simple way"}
	otherColumns        = rule{reason: "the server describes %d columns, and not %d"}
	noTable             = rule{reason: "it reads no table"}
	notRead             = rule{reason: "the server answers it without reading a table"}
	noPartitions        = rule{reason: "no table that it reads has partitions or, with --by-range, a primary key"}
	view                = rule{reason: "%s is a view, or no table that the account may read"}
	fleetingColumn      = rule{reason: "the generated column %s of %s may have another value in each session"}
	onlySubquery        = rule{reason: "only a subquery reads %s"}
	partitionsUncertain = rule{reason: "which of the partitions that it names are read is not certain"}
	naturalByRange      = rule{reason: "it has a NATURAL join of a table that is cut by ranges of its key"}
	readsAgain          = rule{reason: "each piece would read %s again, about %d rows"}
	unorderedLimit      = rule{reason: "it has LIMIT without ORDER BY: which rows it returns is up to the server"}
	limitBelow          = rule{reason: "which rows its LIMIT returns may be up to the server"}
	limitForm           = rule{reason: "its limit is 0 or no number, or it has OFFSET alone"}
	sortsAll            = rule{reason: "it sorts all rows, which pieces don't make faster"}
	selectOption        = rule{reason: "SELECT has the option %s"}
	unknownFunction     = rule{reason: "%s is not known to return the same in every piece"}
	clockText           = rule{trait: "ClockTexts", reason: "%s may be the current time, which differs between sessions"}
	clockColumn         = rule{trait: "ClockTexts", reason: "%s may read the current time from a text such as 'now'"}
	datesOutside        = rule{trait: "MissesDates", reason: "%s may miss dates if the server uses an index"}
	systemColumn        = rule{trait: "SystemColumns", reason: "%s is not the same in a partition as in the table"}
	rowType             = rule{trait: "TableRows", reason: "%s has a table's row as a value, which has another type in a partition"}
	databaseOfColumn    = rule{reason: "the column %s is written with the name of its database"}
	caseOfCTE           = rule{reason: "the name %s differs in case from that of a CTE"}
	hiddenColumn        = rule{trait: "HiddenColumns", reason: "%s may be the name of a hidden column"}
	aliasWithin         = rule{reason: "the alias %s is used within an expression"}
	caseOfOperands      = rule{trait: "FoldsOperands", reason: "the names %s and %s of its tables differ in case alone"}
	caseOfLetters       = rule{trait: "FoldsColumns", reason: "whether %s and %s are the same name depends on the server"}
	earlyCTE            = rule{trait: "EarlyCTEs", reason: "the CTE %s may hide a table of this name"}
	nameOfItem          = rule{trait: "ImplicitNames", reason: "the name %s in ORDER BY may stand for another element of the select list"}
	nameOfSeveral       = rule{reason: "the name %s stands for several expressions"}
	itemUnnamed         = rule{trait: "ImplicitNames", reason: "the name of an element of its select list is not certain"}
	outerAggregate      = rule{reason: "%s in a subquery may be an aggregate of the query around it"}
	windowsOfRows       = rule{reason: "it has window functions over rows"}
	windowOfWindow      = rule{reason: "%s has a window that is made of another, or whose name is not certain"}
	lastDigits          = rule{reason: "the last digits of %s depend on the order of the additions"}
	noParts             = rule{reason: "%s can't be computed from parts with certainty"}
	constantKey         = rule{reason: "%s has a constant, or a position after a star"}
	looseColumn         = rule{reason: "%s is neither grouped by nor aggregated"}
	keyAmbiguous        = rule{reason: "it groups by %s, whose text may stand for several values"}
	keyDigits           = rule{trait: "HiddenDigits", reason: "it groups by %s, a decimal number that may have more digits than its text"}
	rowDigits           = rule{trait: "HiddenDigits", reason: "%s is a decimal number that may have other digits than its type"}
	sortsByQuotient     = rule{trait: "HiddenDigits", reason: "it sorts by a quotient, whose digits beyond its type would be cut"}
	windowQuotient      = rule{trait: "OperandForm", reason: "%s has a quotient, whose digits beyond its type would be cut"}
	digitsWithin        = rule{reason: "%s within an expression has more digits than can be computed from parts, or another sign"}
	shortType           = rule{trait: "ShortTypes", reason: "%s may have more digits than its type, to which the server may cut it"}
	equalValues         = rule{reason: "which of the equal values of %s it returns is up to the server"}
	equalGroups         = rule{reason: "%s depends on the order of groups that are equal in its order"}
	windowOfGroups      = rule{reason: "%s is not known to be certain over groups"}
	windowOrder         = rule{reason: "it has windows over groups with %s, a type that the server orders in a way of its own"}
	typeUncertain       = rule{reason: "the type of %s depends on how the server computes it"}
	rollupNames         = rule{reason: "it has WITH ROLLUP, and selects %s twice, or another element under its name"}
	rollupKept          = rule{trait: "KeepsKeys", reason: "it has WITH ROLLUP and %s"}
	rollupOperand       = rule{trait: "KeepsOperands", reason: "it has WITH ROLLUP and an expression of %s, which may not be NULL there in a subtotal"}
	constantInSets      = rule{reason: "%s is a constant among its grouping sets, and the server may not sort by it"}
	offsetOfOne         = rule{trait: "KeepsOneRow", reason: "it has OFFSET of a single row"}
	lostRows            = rule{trait: "ForgetsRows", reason: "it has DISTINCT, and sorts by the expression %s"}
	lostOffset          = rule{trait: "LosesOffset", reason: "it has DISTINCT of expressions, and OFFSET"}
	swappedNames        = rule{trait: "SwapsNames", reason: "it selects %s twice, of which one may get the name of the other"}
	countsAlone         = rule{trait: "CountsAll", reason: "it computes with counts alone, and some versions of the server count otherwise then"}
	sortsByAlias        = rule{trait: "MissortsAliases", reason: "it sorts by %s, which has an alias in it"}
	computedKey         = rule{trait: "OperandForm", reason: "%s is computed from a key that is an expression, and the key's type may not hold all of its values"}
	mayBeJSON           = rule{trait: "OperandForm", reason: "%s tells texts, JSON and truth values apart, which columns of groups don't"}
	numberAsTime        = rule{trait: "NumbersAsTimes", reason: "%s takes a number for a time, which depends on whether it is a column"}
	dateAsTime          = rule{trait: "MistakesDates", reason: "%s takes a date for a time of day in some plans of the server"}
	namedCollation      = rule{trait: "OperandForm", reason: "%s has a text whose collation is named in the query"}
	severalTexts        = rule{trait: "OperandForm", reason: "%s combines several texts, one of them computed"}
	notStored           = rule{reason: "%s can't be stored in a temporary table with certainty"}
	severalStars        = rule{reason: "it has several stars"}
	sameColumns         = rule{reason: "two columns of its result are called %s"}
	formAround          = rule{reason: "it has %s around the groups of a derived table or CTE"}
	aggregateAround     = rule{reason: "%s is not known to be certain over the rows of a derived table or CTE"}
	setForm             = rule{reason: "it has a set operation with %s"}
	unionCollations     = rule{reason: "it has a set operation, and this server's temporary tables have no collations"}
	branchTypes         = rule{reason: "its branches have numbers of different types in the column %s"}
	branchQuotients     = rule{trait: "HiddenDigits", reason: "its branches have quotients, and numbers with more digits, in the column %s"}
	branchSizes         = rule{trait: "DescribesAnyBranch", reason: "its branches have values of different sizes in the column %s"}
	branchCollation     = rule{trait: "NamedCollations", reason: "a branch of its set operation has the collation of %s"}
	branchRows          = rule{reason: "branch %d of its set operation returns many rows, which the server would have to store"}
)
