/* span.pml - one span of a pool goes from class to class while threads allocate from it, extend it,
 * take it apart and die.
 *
 *   word     {use: FREE, class A (two objects), class B (one, over both), taking(t); generation}:
 *            every change is a compare-exchange from the exact word that was seen; taking begins
 *            the next generation
 *   front    {generation, shut, count}: how many objects exist in that generation
 *   tag[i]   0, or the thread that has object i. Tags have a place of their own, whatever the span
 *            is for
 *
 * alloc     (prepare) word FREE -> taking -> front (generation, 0) -> class
 *           (extend) word is my class: front of that generation, not shut, not all -> one more
 *           (take) an object that exists by word and front, of my class: tag 0 -> me, then word
 *           and front are looked at again: still there and as large -> mine; else tag me -> 0
 * reclaim   word, front of that generation; all tags 0 (a mere scan); take all objects; shut the
 *           front; word -> taking; pages away; tags me -> 0; word -> FREE
 * collect   by any thread: taking(dead) -> FREE; tag of a dead thread -> 0
 *
 * A thread may be stopped for any time between any two steps, or die there. Checked: memory never
 * has two owners, has pages, and is not punched while a thread has it; an object in use is of the
 * class that its owner asked for.
 * Switches: -DNT=threads -DROUNDS=operations of each -DD=deaths
 *   STOP       One thread may stop for ever. The others come to their ends, and then the span and
 *              its objects are free, or the stopped thread's, or a dead thread's, which any thread
 *              collects.
 * Mutations, each must be caught:
 *   NOLIFE     a word is its use only: a thread that was stopped takes a later generation apart
 *   NOFRONT    the front's generation is not looked at: a thread that was stopped extends a later
 *              generation, or sees objects of another
 *   NOVERIFY   no second look after the tag
 *   NOCLASS    the scan for a free object forgets that the class may have changed since it chose
 *              the span
 *   NOSHUT     reclaim does not shut the front: an object is made meanwhile
 */
#ifndef NT
#define NT 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef D
#define D 1
#endif
#define FREE 0
#define A 1
#define B 2
#define TAKING(t) (3+(t))
#define COUNT(c) (3-(c))        /* A: 2, B: 1 */
#define WORD(u,l) ((l)*16+(u))
#define USE(w) ((w)%16)
#define LIFE(w) ((w)/16)
#ifdef NOLIFE
#define SAME(a,b) (USE(a)==USE(b))
#else
#define SAME(a,b) ((a)==(b))
#endif
#define FRONT(l,s,n) ((l)*16+(s)*8+(n))
#define FLIFE(f) ((f)/16)
#define SHUT(f) (((f)/8)%2)
#define N(f) ((f)%8)
#ifdef NOFRONT
#define OF(f,w) true
#define FSAME(a,b) ((a)%16==(b)%16)
#else
#define OF(f,w) (FLIFE(f)==LIFE(w))
#define FSAME(a,b) ((a)==(b))
#endif

byte word, front, tag[2];
bool dead[NT];
byte deaths;
#ifdef STOP
bool stopped[NT], stop=1;
#endif
byte mem[2];                    /* ghost: the thread that has these bytes, t + 1 */
bool page[2];                   /* they have pages */

/* the object i as seen by w2 and f2: of which class; 0 when there is none */
#define CLASS ((USE(w2)==A || USE(w2)==B) && OF(f2,w2) && i<N(f2) && i<COUNT(USE(w2)) -> USE(w2) : 0)
#define CLEAR w=0; f=0; w2=0; f2=0; i=0; n=0; c=0; want=0; ok=0
#define END_ROUND CLEAR; if :: rounds==ROUNDS -> goto over :: else -> goto next fi
/* take tries the next object of an allocation; a reclaim gives back what it has */
#define TRY_NEXT w2=0; f2=0; c=0; if :: want==0 -> goto back :: else -> i++; if :: i<COUNT(want) -> goto look :: else -> END_ROUND fi fi

proctype T(byte me) {
	byte w, f, w2, f2, i, n, c, rounds;
	byte want;              /* what an allocation asks for; 0: a reclaim */
	bool ok;
	{
		skip;
next:		if
		/* alloc */
		:: atomic { rounds++; w=word;
				if :: want=A :: want=B fi;
				if
				:: USE(w)==FREE
				:: USE(w)>=3 && dead[USE(w)-3] -> goto unstick
				:: USE(w)==want -> goto extend
				:: else -> END_ROUND
				fi };
			atomic { if :: SAME(word,w) -> word=WORD(TAKING(me), LIFE(word)+1); w=word :: else -> END_ROUND fi };
			front=FRONT(LIFE(w),0,0);
			atomic { if :: SAME(word,w) -> word=WORD(want, LIFE(word)) :: else fi; END_ROUND };
unstick:		atomic { if :: SAME(word,w) -> word=WORD(FREE, LIFE(word)) :: else fi; END_ROUND };
extend:			atomic { f=front;
				if :: OF(f,w) && !SHUT(f) && N(f)<COUNT(want) :: else -> f=0; w=0; goto look fi };
			/* pages first; punched before the next step, the front says so */
			atomic { if :: want==A -> page[N(f)]=1 :: else -> page[0]=1; page[1]=1 fi };
			atomic { if :: FSAME(front,f) -> front=front+1 :: else fi; f=0; w=0; goto look }
		/* reclaim */
		:: atomic { rounds++; w=word; if :: USE(w)==A || USE(w)==B :: else -> END_ROUND fi };
			atomic { f=front;
				if :: OF(f,w) :: else -> END_ROUND fi;
				n=N(f); if :: n>COUNT(USE(w)) -> n=COUNT(USE(w)) :: else fi;
				if :: n==0 -> goto shut :: else -> goto look fi }
#if D>0
		/* collect; dead stays dead, so look and compare-exchange are one step */
		:: atomic { deaths>0 -> rounds++; if :: tag[0]!=0 && dead[tag[0]-1] -> tag[0]=0 :: else fi };
			atomic { if :: tag[1]!=0 && dead[tag[1]-1] -> tag[1]=0 :: else fi; END_ROUND }
#endif
		fi;

		/* take: object i, if it is there and of the class that is wanted */
look:		w2=word;
		atomic { f2=front; c=CLASS; w2=0; f2=0;
			if
#ifndef NOCLASS
			:: want!=0 && c!=want -> END_ROUND
#endif
			:: c==0 -> if :: want==0 -> goto back :: else -> END_ROUND fi
			:: else
			fi };
		atomic { if :: tag[i]==0 -> tag[i]=me+1 :: else -> TRY_NEXT fi };
#ifndef NOVERIFY
		w2=word;
		atomic { f2=front; if :: CLASS!=c -> goto untake :: else -> w2=0; f2=0 fi };
#endif
		atomic { c=0;
			if :: want==0 -> i++; if :: i<n -> goto look :: else -> goto shut fi :: else fi;
			/* the bytes are ours, as many as we asked for */
			assert(USE(word)==want);
			if
			:: want==A -> assert(mem[i]==0 && page[i]); mem[i]=me+1
			:: else -> assert(mem[0]==0 && mem[1]==0 && page[0] && page[1]); mem[0]=me+1; mem[1]=me+1
			fi };
		atomic { if :: mem[0]==me+1 -> mem[0]=0 :: else fi; if :: mem[1]==me+1 -> mem[1]=0 :: else fi };
		atomic { assert(tag[i]==me+1); tag[i]=0; END_ROUND };
untake:		atomic { if :: tag[i]==me+1 -> tag[i]=0 :: else fi; TRY_NEXT };

shut:
#ifndef NOSHUT
		atomic { if :: FSAME(front,f) -> front=FRONT(FLIFE(front),1,N(f)) :: else -> goto back fi };
#endif
		atomic { if :: SAME(word,w) -> word=WORD(TAKING(me), LIFE(word)+1); w=word; ok=1 :: else -> goto back fi };
		atomic { assert(mem[0]==0 && mem[1]==0); page[0]=0; page[1]=0 };        /* punch */
back:		atomic {
			if
			:: i>0 -> i--; if :: tag[i]==me+1 -> tag[i]=0 :: else fi; if :: i>0 -> goto back :: else fi
			:: else
			fi;
			if :: !ok -> END_ROUND :: else fi };
		atomic { if :: SAME(word,w) -> word=WORD(FREE, LIFE(word)) :: else fi; END_ROUND };
over:		skip
#ifdef STOP
	} unless { (dead[me] || stopped[me]) };
#else
	} unless { dead[me] };
#endif
	atomic { CLEAR }
}

active proctype K() {
	byte i;
	atomic { for (i : 0 .. NT-1) { run T(i) }; i=0 };
	do
	:: deaths<D -> atomic { i=0; do :: i+1<NT -> i++ :: break od; if :: !dead[i] -> dead[i]=1; deaths++ :: else fi;
		if :: mem[0]==i+1 -> mem[0]=0 :: else fi; if :: mem[1]==i+1 -> mem[1]=0 :: else fi; i=0 }
#ifdef STOP
	:: atomic { stop -> stop=0; i=0; do :: i+1<NT -> i++ :: break od; if :: !dead[i] -> stopped[i]=1 :: else fi; i=0 }
#endif
	:: break
	od
#ifdef STOP
	;
	timeout -> atomic {
		assert(USE(word)<3 || dead[USE(word)-3] || stopped[USE(word)-3]);
		for (i : 0 .. 1) { assert(tag[i]==0 || dead[tag[i]-1] || stopped[tag[i]-1]) } }
#endif
}
