package storetest

func cases() []testCase {
	return []testCase{
		{
			"Capacity",
			"While the clock stands still, exactly the capacity is admitted, and Remaining counts it down by one.",
			eachAlgorithm(capacity),
		},
		{
			"RetryAfter",
			"Waiting exactly RetryAfter admits the same cost; a microsecond less does not.",
			eachAlgorithm(retryAfter),
		},
		{
			"Window",
			"When an admitted event leaves nothing, Window is the time until something remains; a microsecond less does not suffice.",
			eachAlgorithm(windowOfNothing),
		},
		{
			"Periods",
			"Any period works, from a millisecond to a year, and any rate, without drift.",
			eachAlgorithm(periods),
		},
		{
			"NoDrift",
			"A bucket that is kept busy admits its burst and its rate, exactly.",
			noDrift,
		},
		{
			"DenialTakesNothing",
			"A denial leaves every rule of every key as it was.",
			eachAlgorithm(denialTakesNothing),
		},
		{
			"AllOrNone",
			"Several rules and several keys are charged together or not at all.",
			eachAlgorithm(allOrNone),
		},
		{
			"SameRuleTwice",
			"Asks that meet in one rule of one key are charged their sum.",
			eachAlgorithm(sameRuleTwice),
		},
		{
			"Never",
			"A cost above the capacity is denied with Never and changes nothing, however large it is.",
			eachAlgorithm(never),
		},
		{
			"LongestLimits",
			"A limit that reaches over the longest time there is denies a cost above its capacity like any other.",
			eachAlgorithm(longestLimits),
		},
		{
			"Peek",
			"Peek, and AllowN of zero, say what Allow would say and take nothing.",
			eachAlgorithm(peek),
		},
		{
			"Probe",
			"A Store that accepts writes says so when it is probed, and no state changes.",
			eachAlgorithm(probe),
		},
		{
			"Reset",
			"Reset forgets what a key has used, and says whether that was anything.",
			eachAlgorithm(reset),
		},
		{
			"Credit",
			"Credit frees what was taken, never above the capacity.",
			eachAlgorithm(credit),
		},
		{
			"Debit",
			"Debit charges what has happened, into debt if need be, and the debt delays what comes next.",
			eachAlgorithm(debit),
		},
		{
			"DebitMost",
			"A bill of any size, and any number of them, denies what comes next.",
			eachAlgorithm(debitMost),
		},
		{
			"DebtAndClock",
			"A clock that steps back makes no debt longer.",
			eachAlgorithm(debtAndClock),
		},
		{
			"Reservations",
			"A reservation is settled at what the event has cost, up or down, as often as one likes.",
			eachAlgorithm(reservations),
		},
		{
			"StaleReservations",
			"What has been forgotten or refilled is not given back again.",
			eachAlgorithm(staleReservations),
		},
		{
			"ManyReservations",
			"What a reservation gives back is its own.",
			eachAlgorithm(manyReservations),
		},
		{
			"RefundedSuccesses",
			"However many events are given back, those that count stay within the limit.",
			eachAlgorithm(refundedSuccesses),
		},
		{
			"Soft",
			"A soft limit lets so much more through, flags it, and tells what remains of the limit itself.",
			eachAlgorithm(soft),
		},
		{
			"Elastic",
			"An elastic limit grows while resources are free, and shrinks back without locking anyone out.",
			eachAlgorithm(elastic),
		},
		{
			"ElasticFlaps",
			"A limit that stretches and shrinks all the time admits no more than its largest.",
			elasticFlaps,
		},
		{
			"Shadow",
			"A shadow is evaluated and reported, never enforced, and charged what the others admit.",
			eachAlgorithm(shadow),
		},
		{
			"MaxDelay",
			"An event that would have to wait for longer than it is ready to is denied, and takes nothing.",
			maxDelay,
		},
		{
			"AnyWindow",
			"No span of a period ever holds more than the limit, whatever edges a client aims at.",
			anyWindow,
		},
		{
			"Keys",
			"Different keys never share state, whatever bytes they are made of.",
			eachAlgorithm(keys),
		},
		{
			"ClockStepsBack",
			"A clock that steps back admits nothing extra, and locks nobody out for longer than a period.",
			eachAlgorithm(clockStepsBack),
		},
		{
			"PeekAfterClockStep",
			"After a clock that stepped back, a caller that only peeks is admitted again within a period.",
			eachAlgorithm(peekAfterClockStep),
		},
		{
			"PeekAfterShorterPeriod",
			"After a limit with a shorter period, a caller that only peeks is admitted again within that period.",
			eachAlgorithm(peekAfterShorterPeriod),
		},
		{
			"UndoOfNothing",
			"An undo with the zero Receipt frees nothing.",
			eachAlgorithm(undoOfNothing),
		},
		{
			"UndoAtTheSameTimeAgain",
			"When the clock has stepped back and says the time of a charge again, undoing the charge frees nothing of others.",
			eachAlgorithm(undoAtTheSameTimeAgain),
		},
		{
			"UndoAfterClockSteps",
			"However the clock steps back between a charge and its undo, the events that are not undone stay within the limit.",
			eachAlgorithm(undoAfterClockSteps),
		},
		{
			"ClockLeaps",
			"A clock that leaps forward grants at most one burst.",
			eachAlgorithm(clockLeaps),
		},
		{
			"LimitChanges",
			"State that was written under another limit gives no burst above the new one and locks nobody out.",
			eachAlgorithm(limitChanges),
		},
		{
			"Cancelled",
			"A context that has ended is an error of that context, and nothing is taken.",
			eachAlgorithm(cancelled),
		},
		{
			"Concurrency",
			"64 goroutines with 100 calls each are admitted exactly up to the limit.",
			eachAlgorithm(concurrency),
		},
		{
			"Smallest",
			"Of rules of all algorithms, the smallest limit is admitted, and every rule is charged that.",
			smallest,
		},
		{
			"ConcurrentAllOrNone",
			"Concurrent decisions over two keys take from both or from neither.",
			concurrentAllOrNone,
		},
		{
			"Histories",
			"Every answer is that of the definition of the algorithm, over random costs, gaps, rules, keys and clock steps.",
			histories,
		},
	}
}
