/* share.pml - objects with several holders, each named; death between any two steps.
 *
 *   tag[o]      free | owned(p) | shared(n, j): n the number of this sharing, a number that no
 *               other sharing has; j how often it was joined
 *   note[o]     the row of the holders; written by the owner before it shares
 *   head[b]     0, or (n, o): the row serves that sharing of o. In use while tag[o] says
 *               shared(n, _), or owned (the owner may be about to share); else any process may
 *               take it
 *   cell[b][c]  0, or (p, n): p is among the holders of n. In a row that serves another sharing by
 *               now the cell claims nothing
 *
 * share    tag owned(me); head 0 (or not in use) -> (n, o); a cell 0 (or an ended process's) ->
 *          (me, n); note := b; tag owned(me) -> shared(n, 0)
 * join     tag shared(n, j); b := note; head b is (n, o); a cell as above -> (me, n); tag (n, j) ->
 *          (n, j+1): I hold it. Another j: again. No longer n: cell (me, n) -> 0
 * leave    cell := 0; tag shared(n, j); no cell of n names a process that has not ended; tag (n, j)
 *          -> owned(me); cells of n -> 0; head (n, o) -> 0; tag := 0
 * try      as leave, with my own cell kept until the tag is owned(me), and left out of the look
 * collect  by any process: of each head (n, o): tag shared(n, j) and no cell of n names a process
 *          that has not ended: tag (n, j) -> 0, cells, head as above. Tag not of n and not owned:
 *          head (n, o) -> 0. Cells of the ended -> 0
 *
 * A process that is killed reads on for a while (dead), then it has ended (over). Its tag owned is
 * free then.
 * Checked: an object with a holder that has not ended is not freed, and belongs to no single
 * process; when all is quiet and no process died, everything is free, without a collection; after
 * deaths, one collection later.
 * Switches: -DP=processes -DR=rounds -DD=deaths -DO=objects -DC=cells -DTRY
 *   STOP        One process may stop for ever, and be killed then. The others come to their ends.
 *               One collection later an object that is not free is the stopped process's, or names
 *               it among its holders; every other head and cell is cleared.
 * Mutations, each must be caught:
 *   NOJ         joinings are not counted: a process that looked before another one joined frees the
 *               object
 *   TAGFIRST    join: the tag before the cell
 *   SCANFIRST   leave: the look before the own cell is cleared
 *   DEADONLY    a dead token is enough, the process need not have ended
 *   NONUMBER    any cell of the row counts, of whatever sharing
 *   STEALOTHER  a process that joins takes cells of other numbers, too
 *   JUDGEOWNED  a row may be taken although its object's tag says owned
 *   HEADFIRST   leave: the head before the tag
 *   NOBACK      join: the cell is not taken back
 *   WAITOWNER   (STOP) a process that joins waits while the tag says owned
 *   SAMENUMBER  all sharings of an object have one number
 */
#ifndef P
#define P 2
#endif
#ifndef R
#define R 2
#endif
#ifndef D
#define D 1
#endif
#ifndef O
#define O 1
#endif
#ifndef C
#define C 2
#endif
#define B 2
#define FREE 0
#define OWNED 1
#define SHARED 2
#define NONE 9
#define AT(b,c) ((b)*C+(c))

byte kind[O], by[O], num[O], joins[O];	/* tag: every step on all four is atomic */
byte note[O];
byte hn[B], ho[B];			/* head */
byte cp[B*C], cn[B*C];			/* cells; p from 1 */
bool dead[P+1], over[P+1], killed[P+1], fin[P+1];
byte holds[P+1], holdo[P+1];		/* ghosts */
byte offern[2], offero[2];		/* the last two offsets that were told */
byte numbers, budget;
bool disturbed;
#ifdef STOP
bool stopped[P+1], stop=1;
#define DONE(i) (fin[i] || stopped[i])
#define STAYS(i) (stopped[i] && !dead[i])
#endif

#define ALIVE(p) (!over[p])
#ifdef DEADONLY
#define GONE(p) (dead[p])
#else
#define GONE(p) (over[p])
#endif
#ifdef NONUMBER
#define COUNTS(a,n) (cp[a]!=0 && !GONE(cp[a]))
#else
#define COUNTS(a,n) (cp[a]!=0 && cn[a]==(n) && !GONE(cp[a]))
#endif
#ifdef STEALOTHER
#define TAKEABLE(a,n) (cp[a]==0 || over[cp[a]] || cn[a]!=(n))
#else
#define TAKEABLE(a,n) (cp[a]==0 || over[cp[a]])
#endif
#ifdef NOJ
#define SAMEJ(o,j) true
#else
#define SAMEJ(o,j) (joins[o]==(j))
#endif
#ifdef JUDGEOWNED
#define ONTHEWAY(o) false
#else
#define ONTHEWAY(o) (kind[o]==OWNED)
#endif

/* no process that could still read has it, but perhaps `me` */
inline nobody_holds(o,n) {
	i=1;
	do :: i<=P -> assert(i==me || !(holds[i]==n && holdo[i]==o && n!=0 && ALIVE(i))); i++ :: else -> break od;
	i=0
}

/* a cell of row b for me under n: c, or NONE. Two steps for each: look, then exchange */
inline enter() {
	c=0; x=NONE;
	do
	:: c<C && x==NONE ->
		atomic { if :: TAKEABLE(AT(b,c),n) -> x=cp[AT(b,c)]; y=cn[AT(b,c)] :: else -> c++ fi };
		if
		:: x!=NONE -> atomic { if :: cp[AT(b,c)]==x && cn[AT(b,c)]==y -> cp[AT(b,c)]=me; cn[AT(b,c)]=n :: else -> x=NONE; c++ fi }
		:: else
		fi
	:: else -> break
	od;
	atomic { if :: x==NONE -> c=NONE :: else fi; x=0; y=0 }
}

/* some=1: a cell of n, but cell `not`, names a process that has not ended */
inline look(not) {
	atomic { some=0; x=0 };
	do
	:: x<C && !some -> atomic { if :: x!=not && COUNTS(AT(b,x),n) -> some=1 :: else fi; x++ }
	:: else -> break
	od;
	x=0
}

/* what the last one does with the row */
inline clear() {
	x=0;
	do
	:: x<C -> atomic { if :: cn[AT(b,x)]==n && cp[AT(b,x)]!=0 -> cp[AT(b,x)]=0; cn[AT(b,x)]=0 :: else fi; x++ }
	:: else -> break
	od;
	atomic { x=0; if :: hn[b]==n && ho[b]==o -> hn[b]=0; ho[b]=0 :: else fi }
}

proctype T(byte me) {
	byte o, n, j, b, c, x, y, i, r; bool some, mine;
	{
		do
		:: r<R ->
			mine=0;
			if
			:: true ->	/* share */
				atomic { if :: kind[0]==FREE -> o=0; mine=1
#if O > 1
					:: kind[1]==FREE -> o=1; mine=1
#endif
					:: else fi; if :: mine -> kind[o]=OWNED; by[o]=me :: else fi };
				if
				:: mine ->
#ifdef SAMENUMBER
					n=1;
#else
					atomic { numbers++; n=numbers };
#endif
					b=0; c=NONE;
					do
					:: b<B ->
						atomic { x=hn[b]; y=ho[b]; some=(x==0 || (!(kind[y]==SHARED && num[y]==x) && !ONTHEWAY(y))) };
						if
						:: some -> atomic { if :: hn[b]==x && ho[b]==y -> hn[b]=n; ho[b]=o; x=0; y=0; break :: else fi }
						:: else
						fi;
						b++
					:: else -> break
					od;
					atomic { x=0; y=0; some=0 };
					if
					:: b<B -> enter()
					:: else
					fi;
					if
					:: c==NONE ->	/* no room for holders: it stays mine, and I free it */
						atomic { if :: b<B && hn[b]==n && ho[b]==o -> hn[b]=0; ho[b]=0 :: else fi };
						atomic { kind[o]=FREE; by[o]=0; mine=0 }
					:: else ->
						note[o]=b;
						atomic { assert(kind[o]==OWNED && by[o]==me); kind[o]=SHARED; by[o]=0; num[o]=n; joins[o]=0;
							holds[me]=n; holdo[me]=o; offern[1]=offern[0]; offero[1]=offero[0]; offern[0]=n; offero[0]=o }
					fi
				:: else
				fi
			:: true ->	/* join */
				atomic { if :: offern[0]!=0 -> n=offern[0]; o=offero[0]; mine=1 :: offern[1]!=0 -> n=offern[1]; o=offero[1]; mine=1
					:: else fi };
				if
				:: mine ->
#ifdef WAITOWNER
					(kind[o]!=OWNED || !ALIVE(by[o]));
#endif
					atomic { mine=(kind[o]==SHARED && num[o]==n); j=joins[o] };
					if
					:: mine ->
						b=note[o];
						mine=(hn[b]==n && ho[b]==o);
						if
						:: mine ->
#ifdef TAGFIRST
							do
							:: atomic { if :: kind[o]==SHARED && num[o]==n && SAMEJ(o,j) -> joins[o]=joins[o]+1; some=1
									:: kind[o]==SHARED && num[o]==n && !SAMEJ(o,j) -> j=joins[o]
									:: else -> mine=0 fi };
								if :: some || !mine -> break :: else fi
							od;
							some=0;
							if :: mine -> enter(); if :: c!=NONE -> holds[me]=n; holdo[me]=o :: else -> mine=0 fi :: else fi
#else
							enter();
							if
							:: c==NONE -> mine=0
							:: else ->
								do
								:: atomic { if :: kind[o]==SHARED && num[o]==n && SAMEJ(o,j) ->
#ifndef NOJ
											joins[o]=joins[o]+1;
#endif
											some=1; holds[me]=n; holdo[me]=o
										:: kind[o]==SHARED && num[o]==n && !SAMEJ(o,j) -> j=joins[o]
										:: else -> mine=0 fi };
									if :: some || !mine -> break :: else fi
								od;
								some=0;
#ifndef NOBACK
								if
								:: !mine -> atomic { if :: cp[AT(b,c)]==me && cn[AT(b,c)]==n -> cp[AT(b,c)]=0; cn[AT(b,c)]=0 :: else fi }
								:: else
								fi
#endif
							fi
#endif
						:: else
						fi
					:: else
					fi
				:: else
				fi
			:: true ->	/* collect */
				b=0;
				do
				:: b<B ->
					atomic { n=hn[b]; o=ho[b] };
					if
					:: n!=0 ->
						atomic { some=(kind[o]==SHARED && num[o]==n); j=joins[o]; mine=(!some && !ONTHEWAY(o)) };
						if
						:: some ->
							look(NONE);
							if
							:: !some -> atomic { if :: kind[o]==SHARED && num[o]==n && SAMEJ(o,j) ->
										nobody_holds(o,n); assert(holds[me]==0); kind[o]=FREE; num[o]=0; joins[o]=0; some=1
									:: else fi };
								if :: some -> clear() :: else fi
							:: else
							fi
						:: mine -> atomic { if :: hn[b]==n && ho[b]==o -> hn[b]=0; ho[b]=0 :: else fi }
						:: else
						fi
					:: else
					fi;
					atomic { some=0; mine=0; b++ }
				:: else -> break
				od
			fi;
			/* leave */
			if
			:: mine ->
#ifdef TRY
				if
				:: true ->
					atomic { mine=(kind[o]==SHARED && num[o]==n); j=joins[o] };
					assert(mine);
					look(c);
					if
					:: !some -> atomic { if :: kind[o]==SHARED && num[o]==n && SAMEJ(o,j) ->
								nobody_holds(o,n); kind[o]=OWNED; by[o]=me; num[o]=0; joins[o]=0; holds[me]=0; holdo[me]=0; some=0
							:: else -> some=1 fi }
					:: else
					fi;
					if
					:: !some -> clear(); atomic { assert(kind[o]==OWNED && by[o]==me); kind[o]=FREE; by[o]=0; mine=0 }
					:: else
					fi
				:: true
				fi;
#endif
				if
				:: mine ->
#ifdef SCANFIRST
					atomic { mine=(kind[o]==SHARED && num[o]==n); j=joins[o] };
					look(c);
					atomic { holds[me]=0; holdo[me]=0; cp[AT(b,c)]=0; cn[AT(b,c)]=0 };
#else
					atomic { holds[me]=0; holdo[me]=0; assert(cp[AT(b,c)]==me && cn[AT(b,c)]==n); cp[AT(b,c)]=0; cn[AT(b,c)]=0 };
					atomic { mine=(kind[o]==SHARED && num[o]==n); j=joins[o] };
					if :: mine -> look(NONE) :: else fi;
#endif
#ifdef HEADFIRST
					if :: mine && !some -> clear() :: else fi;
#endif
					if
					:: mine && !some -> atomic { if :: kind[o]==SHARED && num[o]==n && SAMEJ(o,j) ->
								nobody_holds(o,n); kind[o]=OWNED; by[o]=me; num[o]=0; joins[o]=0
							:: else -> mine=0 fi };
						if
						:: mine ->
#ifndef HEADFIRST
							clear();
#endif
							atomic { assert(kind[o]==OWNED && by[o]==me); kind[o]=FREE; by[o]=0 }
						:: else
						fi
					:: else
					fi
				:: else
				fi
			:: else
			fi;
			atomic { o=0; n=0; j=0; b=0; c=0; x=0; y=0; i=0; some=0; mine=0; r++ }
		:: else -> break
		od;
		atomic { r=0; fin[me]=1 }
end_idle:	(false)
#ifdef STOP
	} unless { (killed[me] || stopped[me]) && !fin[me];
		disturbed=1;
end_stop:	killed[me];
#else
	} unless { killed[me] && !fin[me];
#endif
		atomic { dead[me]=1; disturbed=1; fin[me]=1; o=0; n=0; j=0; b=0; c=0; x=0; y=0; i=0; some=0; mine=0; r=0 } }
}

#ifdef STOP
#if P > 2
#define ALL (DONE(1) && DONE(2) && DONE(3))
#else
#define ALL (DONE(1) && DONE(2))
#endif
#elif P > 2
#define ALL (fin[1] && fin[2] && fin[3])
#else
#define ALL (fin[1] && fin[2])
#endif

active proctype others() {
	byte i, b, c, n, o;
	atomic {
		if :: budget=D
#if D > 0
		:: budget=D-1
#endif
		fi;
		i=1; do :: i<=P -> run T(i); i++ :: else -> break od; i=0 };
	do
	:: atomic { budget>0 && !fin[1] && !killed[1] -> killed[1]=1; budget-- }
	:: atomic { budget>0 && !fin[2] && !killed[2] -> killed[2]=1; budget-- }
	:: atomic { dead[1] && !over[1] -> over[1]=1; holds[1]=0; holdo[1]=0 }
	:: atomic { dead[2] && !over[2] -> over[2]=1; holds[2]=0; holdo[2]=0 }
#if P > 2
	:: atomic { budget>0 && !fin[3] && !killed[3] -> killed[3]=1; budget-- }
	:: atomic { dead[3] && !over[3] -> over[3]=1; holds[3]=0; holdo[3]=0 }
#endif
	/* collect, at any time: what the ended own, and their cells */
	:: atomic { kind[0]==OWNED && over[by[0]] -> kind[0]=FREE; by[0]=0 }
#if O > 1
	:: atomic { kind[1]==OWNED && over[by[1]] -> kind[1]=FREE; by[1]=0 }
#endif
	:: atomic { cp[0]!=0 && over[cp[0]] -> cp[0]=0; cn[0]=0 }
	:: atomic { cp[1]!=0 && over[cp[1]] -> cp[1]=0; cn[1]=0 }
#ifdef STOP
	:: atomic { stop && !fin[1] && !killed[1] -> stopped[1]=1; stop=0 }
	:: atomic { stop && !fin[2] && !killed[2] -> stopped[2]=1; stop=0 }
#endif
	:: ALL -> break
	od;
#ifdef STOP
	atomic {
		i=1; do :: i<=P -> over[i]=(over[i] || dead[i]); i++ :: else -> break od;
		i=0; do :: i<O -> if :: kind[i]==OWNED && !STAYS(by[i]) -> assert(over[by[i]]); kind[i]=FREE; by[i]=0 :: else fi; i++ :: else -> break od;
		b=0;
		do :: b<B ->
			n=hn[b]; o=ho[b]; i=0;
			c=0; do :: c<C ->
				assert(cp[AT(b,c)]==0 || over[cp[AT(b,c)]] || STAYS(cp[AT(b,c)]));
				if :: cp[AT(b,c)]!=0 && STAYS(cp[AT(b,c)]) && cn[AT(b,c)]==n -> i=1 :: else fi; c++ :: else -> break od;
			if :: n!=0 && !i && kind[o]==SHARED && num[o]==n -> kind[o]=FREE; num[o]=0; joins[o]=0 :: else fi;
			if :: n!=0 && i && kind[o]==SHARED && num[o]==n -> kind[o]=NONE :: else fi;
			b++
		:: else -> break od;
		i=0; do :: i<O -> assert(kind[i]==FREE || kind[i]==NONE || (kind[i]==OWNED && STAYS(by[i]))); i++ :: else -> break od;
		i=0; b=0; c=0; n=0; o=0 }
#else
	atomic {
		/* no process died: there is nothing to collect */
		i=0; do :: i<O -> assert(disturbed || kind[i]==FREE); i++ :: else -> break od;
		b=0; do :: b<B -> assert(disturbed || hn[b]==0); b++ :: else -> break od;
		/* one collection, after the dead have ended */
		i=1; do :: i<=P -> over[i]=(over[i] || dead[i]); i++ :: else -> break od;
		i=0; do :: i<O -> if :: kind[i]==OWNED -> assert(over[by[i]]); kind[i]=FREE; by[i]=0 :: else fi; i++ :: else -> break od;
		b=0;
		do :: b<B ->
			n=hn[b]; o=ho[b];
			c=0; do :: c<C -> assert(cp[AT(b,c)]==0 || over[cp[AT(b,c)]]); cp[AT(b,c)]=0; cn[AT(b,c)]=0; c++ :: else -> break od;
			if :: n!=0 && kind[o]==SHARED && num[o]==n -> kind[o]=FREE; num[o]=0; joins[o]=0 :: else fi;
			hn[b]=0; ho[b]=0; b++
		:: else -> break od;
		i=0; do :: i<O -> assert(kind[i]==FREE); i++ :: else -> break od;
		i=0; b=0; c=0; n=0; o=0 }
#endif
}
